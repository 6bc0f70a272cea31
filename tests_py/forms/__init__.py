"""Every public method of pymilvus's clients, called in the forms in which programs write them.

`run` calls each form in the process and against a server and compares what it answers; `words`
reads types, `values` has what is passed for them, `listed` what methods do and how the two doors
may differ, `scene` what is there when a form is called, `shapes` what of an answer is compared,
`orm` the older interface, against the server alone, and `versions` the environments. With the
folder that has this package in the path, `python -m forms --binary PATH` runs all with whatever
pymilvus is installed, and prints a line of JSON.
"""
