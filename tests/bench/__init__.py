"""Developers' benches: what measures kernels, judges and models, and writes pages and recordings from that.

They stay in `tests/`: they use its judges, kernels and records, run GPU tests, and no wheel ships them.
"""
