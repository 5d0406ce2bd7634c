"""`pipebench pack`: a copy of a data set whose JPEGs have restart markers, made losslessly."""
