"""Reads a page as a browser does: its elements with their attributes, and the text in each of them."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img"}


class Page(HTMLParser):
    """The elements of a page in their order, as [tag, attributes, text], and the tags that were not closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self._open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])
        if tag not in VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])

    def handle_endtag(self, tag):
        assert self._open and self._open[-1][0] == tag, f"</{tag}> closes {self.open[-3:]}"
        self._open.pop()

    def handle_data(self, data):
        for one in self._open:
            one[2] += data

    @property
    def open(self):
        return [tag for tag, _, _ in self._open]

    def of(self, tag):
        """The text in each element of a tag."""
        return [text for name, _, text in self.elements if name == tag]

    def named(self, tag):
        return [attributes for name, attributes, _ in self.elements if name == tag]

    @property
    def ids(self):
        return [attributes["id"] for _, attributes, _ in self.elements if "id" in attributes]
