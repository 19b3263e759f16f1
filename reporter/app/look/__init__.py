"""The command ``reporter look``: a study of given models without a YAML file, and a card of each model."""
