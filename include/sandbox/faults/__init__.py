"""What can go wrong in a cluster, to order: each fault is a function, its end another one.

:mod:`sandbox.faults.nodes`, :mod:`sandbox.faults.pods`, :mod:`sandbox.faults.programs`, :mod:`sandbox.faults.access`;
in front of the API server :mod:`sandbox.proxy`. All of it is `python -m sandbox fault …` too.
"""
