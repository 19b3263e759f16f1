"""Charts: each file draws one kind, as a pure function from the frame of one query to an Altair chart."""
