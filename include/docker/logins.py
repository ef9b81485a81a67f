"""Makes a password for each user of Airflow's pages that has none, in a file that only Airflow's account can read.

Called by: the service `api-server` of docker-compose.yaml, before Airflow, which would write passwords that it makes
itself into its log.
"""

import json
import os
import secrets
from pathlib import Path

FILE = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])

users = [user.partition(":")[0].strip() for user in os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(",")]
passwords: dict[str, str] = json.loads(FILE.read_text() or "{}") if FILE.exists() else {}
lacking = [user for user in users if user and user not in passwords]
if lacking:
    passwords |= {user: secrets.token_urlsafe(16) for user in lacking}
    new = FILE.with_name(f"{FILE.name}.new")
    new.touch(0o600)
    new.chmod(0o600)
    new.write_text(json.dumps(passwords) + "\n")
    new.rename(FILE)
