"""The reference trainer: an XGBoost regression on flights, and the example of a program that keeps the contract.

`python -m trainer --help` lists its arguments, :mod:`gpu_training.contract` the environment that the operator sets.
"""
