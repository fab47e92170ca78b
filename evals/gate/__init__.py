"""The regression gate: is this run worse than its baseline, beyond what chance alone explains?"""
