"""Parts that several routes of pages share: answers, pages of lists, lines of tables, fields of forms.

Values of services and of forms come in; views and answers go out.
"""
