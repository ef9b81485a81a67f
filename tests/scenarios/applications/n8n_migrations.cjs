// Runs migrations of n8n, an application over TypeORM: node n8n_migrations.cjs up|down COUNT
// Prints how many there are that ran, and how many there are.
const { DataSource } = require('@n8n/typeorm');
const { entities, postgresMigrations, wrapMigration } = require('@n8n/db');

async function main(direction, count) {
	postgresMigrations.forEach(wrapMigration);
	const options = {
		type: 'postgres',
		host: process.env.PGHOST,
		port: Number(process.env.PGPORT),
		database: process.env.PGDATABASE,
		username: process.env.PGUSER,
		password: process.env.PGPASSWORD,
		entities: Object.values(entities),
		migrationsTransactionMode: 'each',
	};
	const before = await new DataSource({ ...options, migrations: postgresMigrations }).initialize();
	const exists = await before.query(`SELECT to_regclass('public.migrations') AS found`);
	let done = exists[0].found ? Number((await before.query('SELECT count(*) FROM migrations'))[0].count) : 0;
	await before.destroy();
	const sorted = [...postgresMigrations].sort((a, b) => Number(a.name.slice(-13)) - Number(b.name.slice(-13)));
	if (direction === 'up') {
		const wanted = sorted.slice(0, done + count);
		const source = await new DataSource({ ...options, migrations: wanted }).initialize();
		await source.runMigrations({ transaction: 'each' });
		await source.destroy();
		done = wanted.length;
	} else {
		const source = await new DataSource({ ...options, migrations: sorted.slice(0, done) }).initialize();
		for (let n = 0; n < count && sorted[done - 1].prototype.down; n++, done--) {
			await source.undoLastMigration({ transaction: 'each' });
		}
		await source.destroy();
	}
	console.log(`${done} ${sorted.length}`);
}

main(process.argv[2], Number(process.argv[3])).then(
	() => process.exit(0),
	(error) => {
		console.error(error);
		process.exit(1);
	},
);
