"""Random faults on a real standalone cluster, each run with a known right answer; ``make faults``."""
