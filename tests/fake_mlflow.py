"""What the operator asks of MLflow before and after a Job, answered over real HTTP from memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

NOT_FOUND = (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such thing"})


class FakeMlflow:
    """A tracking server that knows one experiment and its runs.

    :ivar runs: by id, in MLflow's own form.
    :ivar models: ids of the logged models that are complete.
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.models: set[str] = set()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.reply(dict(parse_qsl(urlsplit(self.path).query)))

            def do_POST(self) -> None:
                self.reply(json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"))

            def reply(self, body: dict[str, Any]) -> None:
                question = urlsplit(self.path).path.removeprefix("/api/2.0/mlflow/")
                status, answer = fake.answer(question, body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def status_of(self, run_id: str) -> str:
        return str(self.runs[run_id]["info"]["status"])

    def answer(self, question: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        experiment = {"experiment_id": "1", "name": "trainings", "lifecycle_stage": "active"}
        answers: dict[str, Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]] = {
            "experiments/search": lambda _: (200, {"experiments": [experiment]}),
            "experiments/get-by-name": lambda _: (200, {"experiment": experiment}),
            "runs/search": self._search,
            "runs/create": self._create,
            "runs/update": self._update,
            "runs/set-tag": lambda _: (200, {}),
            "model-versions/search": lambda _: (200, {"model_versions": []}),
            "runs/get": lambda asked: (200, {"run": self.runs[asked["run_id"]]}),
        }
        if question.startswith("logged-models/"):
            return self._logged_model(question.removeprefix("logged-models/"))
        return answers[question](body) if question in answers else NOT_FOUND

    def _logged_model(self, model_id: str) -> tuple[int, dict[str, Any]]:
        if model_id not in self.models:
            return NOT_FOUND
        info = {"model_id": model_id, "experiment_id": "1", "name": "model", "status": "LOGGED_MODEL_READY"}
        times = {"creation_timestamp_ms": 1, "last_updated_timestamp_ms": 1, "artifact_uri": "mlflow-artifacts:/m"}
        return 200, {"model": {"info": info | times, "data": {}}}

    def _search(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        wanted = str(body.get("filter", ""))
        found = [
            run
            for run in self.runs.values()
            if all(tag["value"] in wanted for tag in run["data"]["tags"] if tag["key"] == "gpu_training.fingerprint")
        ]
        return 200, {"runs": found}

    def _create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        run_id = f"{len(self.runs) + 1:032x}"
        self.runs[run_id] = {
            "info": {
                "run_id": run_id,
                "experiment_id": "1",
                "status": "RUNNING",
                "start_time": len(self.runs),
                "lifecycle_stage": "active",
                "artifact_uri": "mlflow-artifacts:/1",
            },
            "data": {"tags": body.get("tags", [])},
        }
        return 200, {"run": self.runs[run_id]}

    def _update(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.runs[body["run_id"]]["info"]["status"] = body["status"]
        return 200, {"run_info": self.runs[body["run_id"]]["info"]}
