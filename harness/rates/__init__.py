"""Learning-rate range tests of jobs: made on a node, read by fits, used in a draft's spec."""
