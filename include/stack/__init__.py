"""The stack on one machine: PostgreSQL, an S3 server, MLflow, Airflow's services, and the demo that runs on them."""
