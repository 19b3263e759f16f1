"""Charts that a reader asks: one model or two side by side, a layer, what to compare by."""
