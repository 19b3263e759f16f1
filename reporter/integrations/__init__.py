"""What a study found, for other people's tools: data frames, notebooks, trackers of experiments, the Hugging Face hub.

Everything is written to the disk of this machine; nothing is sent.
"""
