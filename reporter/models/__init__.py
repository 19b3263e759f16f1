"""Models: found, trained from recipes, loaded, measured and hooked; nothing is believed before it is tested."""
