"""The judge as a Model Context Protocol server: coding agents write the kernels, and are told what they are worth."""
