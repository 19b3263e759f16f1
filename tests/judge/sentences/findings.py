FILES, CASES = (), {}
