"""Every public method of pymilvus's clients, called in the forms in which programs write them.

`run` calls each form in the process and against a server and compares what it answers; `values` has
what is passed for which type of which parameter, `listed` what methods do and how the two doors may
differ, `scene` what is there when a form is called, `shapes` what of an answer is compared, and `orm`
the older interface, against the server alone. `python -m forms --binary PATH` runs it with whatever
pymilvus is installed, and prints a line of JSON.
"""
