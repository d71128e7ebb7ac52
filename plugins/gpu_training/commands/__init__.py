"""The commands of `gpu-training`, a module each: `add_parser(commands)` declares it and names its handler."""
