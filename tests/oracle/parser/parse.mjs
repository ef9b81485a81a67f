// Parses SQL and PL/SQL of Oracle with the grammar of ANTLR's collection, as an npm package has it.
// Argument: a file with a JSON object, texts by name. Stdout: one line of JSON a text, [name, [messages]]; none: it parsed.
import { readFileSync } from 'node:fs';
import antlr4 from 'antlr4';
import PlSqlLexer from '@griffithswaite/ts-plsql-parser/antlr/PlSqlLexer.js';
import PlSqlParser from '@griffithswaite/ts-plsql-parser/antlr/PlSqlParser.js';

// What this mode of prediction accepts, the full one accepts, too.
const SLL = 0;

class Messages extends antlr4.error.ErrorListener {
    found = [];

    syntaxError(recognizer, symbol, line, column, message) {
        this.found.push(`line ${line}:${column} ${message}`);
    }
}

function parse(text) {
    const messages = new Messages();
    const lexer = new PlSqlLexer(new antlr4.CharStream(text));
    const parser = new PlSqlParser(new antlr4.CommonTokenStream(lexer));
    for (const each of [lexer, parser]) {
        each.removeErrorListeners();
        each.addErrorListener(messages);
    }
    parser._interp.predictionMode = SLL;
    parser.sql_script();
    return messages.found;
}

for (const [name, text] of Object.entries(JSON.parse(readFileSync(process.argv[2], 'utf8')))) {
    process.stdout.write(`${JSON.stringify([name, parse(text)])}\n`);
}
