"""What measuring and watching give: plain values, and the one report that saves and loads them."""
