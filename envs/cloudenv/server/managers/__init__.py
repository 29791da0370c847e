"""Tasks, episodes and the engines that build, corrupt and grade them."""
