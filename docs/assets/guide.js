// What scrolls sideways can be reached from the keyboard.
const scrolled = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

// The buttons of a block of code, which the theme adds when it comes into view, are no navigation of the page.
function improved() {
  document.querySelectorAll("nav.md-code__nav:not([role])").forEach((each) => each.setAttribute("role", "none"));
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((each) => scrolled.observe(each));
}

new MutationObserver(improved).observe(document.body, { childList: true, subtree: true });
improved();
