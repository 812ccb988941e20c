"""What a drop-in needs where it runs: a copy of this package lies beside each `model_new.py`.

It knows nothing of the rest of this project. Only `library` and `archive` can be imported without torch.
"""
