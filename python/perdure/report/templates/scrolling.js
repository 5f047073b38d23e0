// What is wider than its box says so, and can be scrolled with the keyboard.
function tell(box) {
  const wide = box.scrollWidth > box.clientWidth + 1;
  box.classList.toggle("overflows", wide);
  if (!wide) return;
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "scrolls sideways");
}
function tellAll() {
  for (const box of document.querySelectorAll(".scroll")) tell(box);
}
addEventListener("resize", tellAll);
addEventListener("toggle", tellAll, true);  // what was folded had no width
tellAll();
