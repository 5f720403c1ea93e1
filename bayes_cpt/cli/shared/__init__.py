"""What verbs share: options, output, how a fit is judged and a result shown."""
