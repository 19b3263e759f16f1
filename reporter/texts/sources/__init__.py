"""Sources of texts: each module has what a study says of one kind of corpus, and how its texts are found and read."""
