"""`weed server -s3 …` as far as docker-compose.yaml uses it: S3 over TLS, keys, and /healthz."""

import json
import ssl
import sys
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

assert sys.argv[1] == "server", sys.argv
options = dict(argument.lstrip("-").partition("=")[::2] for argument in sys.argv[2:])
identities = json.loads(Path(options["s3.config"]).read_text())["identities"]
keys = {credential["accessKey"] for identity in identities for credential in identity.get("credentials", [])}
backend = DomainDispatcherApplication(create_backend_app)


def application(environ: dict[str, Any], start_response: Any) -> Any:
    if environ["PATH_INFO"] == "/healthz":
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    if not any(f"Credential={key}/" in authorization for key in keys):
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [b"<Error><Code>AccessDenied</Code><Message>unknown key</Message></Error>"]
    environ["SERVER_NAME"] = "s3"
    return backend(environ, start_response)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options["s3.cert.file"], options["s3.key.file"])
run_simple("0.0.0.0", int(options["s3.port"]), application, threaded=True, ssl_context=context)
