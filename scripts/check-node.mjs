// Old syntax on purpose: it must say its line on a Node that is too old for the rest.
const oldest = [20, 19];
const parts = process.versions.node.split(".").map(Number);
if (parts[0] < oldest[0] || (parts[0] === oldest[0] && parts[1] < oldest[1])) {
  console.error(`marketd needs Node ${oldest.join(".")} or later; this is Node ${process.versions.node}`);
  process.exit(3);
}
