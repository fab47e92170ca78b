"""The figures of a report: drawn by matplotlib in pixels, written as inline SVG that follows the page, and as PNG."""
