"""The results of measuring and watching: plain values, and the one report that saves and loads them."""
