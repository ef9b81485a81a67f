"""A notifier that writes its notices to a file, as a user's own notifier might."""

import json
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class ToFile(BaseNotifier):
    """Appends a line of JSON for each notice; if the file `fail` exists, it fails."""

    template_fields = ("subject", "text")

    def __init__(self, path: str, subject: str, text: str, fail: str = "") -> None:
        super().__init__()
        self.path, self.subject, self.text, self.fail = Path(path), subject, text, fail

    def notify(self, context: Any) -> None:
        if self.fail and Path(self.fail).exists():
            raise OSError("the pager's line is dead")
        with self.path.open("a") as file:
            file.write(json.dumps({"subject": self.subject, "text": self.text, "link": context["notice"].link}) + "\n")
