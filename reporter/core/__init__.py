"""What every other room needs, and which needs none of them: errors, files, tables, numbers for people."""
