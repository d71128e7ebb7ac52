"""A training's document, an identity and settings for tests."""

from __future__ import annotations

from typing import Any

from gpu_training.core.naming import Identity, TaskTry, fingerprint
from gpu_training.core.spec import TrainingSpec, parse_training_spec
from gpu_training.core.training_container import RunSettings

DATA_DIGEST = "sha256:" + "d" * 64
IMAGE = "registry.example.com:5000/team/xgboost-trainer:0.1.0@sha256:" + "a" * 64

OWNER = TaskTry(
    dag_id="nightly_retraining__flight-delay",
    run_id="scheduled__2026-03-02T07:30:00+00:00",
    task_id="train",
    map_index=-1,
    try_number=1,
)
SETTINGS = RunSettings(
    data_uri="s3://flights/versions/2026-03-01/manifest.json",
    tracking_uri="http://mlflow.mlops:5000",
    mlflow_run_id="f" * 32,
    backoff_limit=3,
    deadline_seconds=1800,
    work_seconds=1800,
)


def document(**changes: Any) -> dict[str, Any]:
    """Give the smallest document, with fields changed or added; None takes one out."""
    body: dict[str, Any] = {
        "model": "flight-delay",
        "image": IMAGE,
        "entrypoint": ["python", "-m", "trainer"],
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "2Gi"}},
        "deadline_seconds": 1800,
        "backoff_limit": 2,
        "ttl_seconds_after_finished": 3600,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def full_document() -> dict[str, Any]:
    """Give a document that uses every field."""
    return document(
        arguments={"rounds": 200, "learning-rate": 0.1, "resume": True, "note": "--not an option"},
        resources={
            "requests": {"cpu": "1500m", "memory": "1Gi"},
            "limits": {"nvidia.com/gpu": 2, "cpu": 2, "memory": "2Gi"},
        },
        environment={"OMP_NUM_THREADS": 2, "LOG_LEVEL": "info"},
        secret_environment={"API_TOKEN": {"secret": "tokens", "key": "api.token"}},
        environment_from_secrets=["flights-data-credentials"],
        environment_from_config_maps=["flights-settings"],
        volumes=[
            {"name": "cache", "mount_path": "/var/cache/models", "claim": "model-cache"},
            {"name": "settings", "mount_path": "/etc/settings", "config_map": "flights-settings", "read_only": True},
            {"name": "keys", "mount_path": "/etc/keys", "secret": "keys", "read_only": True},
            {"name": "scratch", "mount_path": "/scratch", "empty_dir": {"size_limit": "10Gi"}},
            {"name": "work", "mount_path": "/work", "empty_dir": {}},
        ],
        shared_memory="512Mi",
        image_pull_secrets=["registry"],
        runtime_class="nvidia",
        priority_class="nightly",
        queue="gpu",
        node_selector={"workload": "gpu-training", "topology.kubernetes.io/zone": "eu-central-1a"},
        tolerations=[
            {"key": "spot", "value": "true", "effect": "NoExecute"},
            {"key": "dedicated"},
        ],
        namespace="gpu-training",
        service_account="training",
        checkpoint_uri="s3://flights/checkpoints/",
        code_version="4f1c2e9",
        clocks={
            "queue_seconds": 7200,
            "startup_seconds": 900,
            "run_seconds": 1200,
            "stall_seconds": 300,
            "total_seconds": 9000,
        },
        budget={"attempts": 4, "disruptions": 6, "gpu_seconds": 7200, "wall_seconds": 3600},
        memory_growth={"factor": 2, "maximum": "8Gi"},
        spot_fallback={
            "node_selector": {"capacity": "on-demand"},
            "tolerations": [{"key": "on-demand", "value": "true", "effect": "NoSchedule"}],
        },
        if_trained="retrain",
        if_not_resumed="stop",
        grace_seconds=120,
        failure_rules=[
            {
                "name": "loader-stopped",
                "category": "bad_data",
                "owner": "application",
                "action": "fail",
                "remedy": "read the loader's log",
                "exit_codes": [9],
            }
        ],
    )


def spec(**changes: Any) -> TrainingSpec:
    """Give the smallest spec with fields changed."""
    return parse_training_spec(document(**changes))


def identity(of: TrainingSpec, **changes: Any) -> Identity:
    """Give the identity of a spec's first Job."""
    return Identity(
        **{
            "model": of.model,
            "deployment": "airflow",
            "fingerprint": fingerprint(of, DATA_DIGEST, (OWNER.dag_id, OWNER.run_id)),
            "generation": 1,
            "number": 1,
            "data_version": "2026-03-01",
            "data_digest": DATA_DIGEST,
            "owner": OWNER,
            **changes,
        }
    )
