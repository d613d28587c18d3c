// Prints the places of `any` and `unknown` in types that are generated from the document, one in each line.
// Usage: untyped.mjs FILE...
//
// Parameters and bodies of functions are skipped: the generators use `any` there for their own code. Maps of response
// headers of openapi-typescript are skipped as well, because each response has one.
import { readFileSync } from "node:fs";
import ts from "typescript";

const untyped = new Set([ts.SyntaxKind.AnyKeyword, ts.SyntaxKind.UnknownKeyword]);

function isHeaderMap(node) {
  return ts.isIndexSignatureDeclaration(node) && node.parent.parent.name?.getText() === "headers";
}

function visit(node, place, report) {
  if (untyped.has(node.kind)) report(place.join("."));
  if (isHeaderMap(node)) return;
  const isMap = ts.isIndexSignatureDeclaration(node);
  const name = isMap ? "*" : node.name?.getText().replace(/^["'](.*)["']$/, "$1");
  const inner = name === undefined ? place : [...place, name];
  if (isMap || ts.isMethodDeclaration(node)) {
    // A method with the suffix `Raw` has the same type.
    if (node.type && !name.endsWith("Raw")) visit(node.type, inner, report);
  } else if (!ts.isFunctionLike(node) && !ts.isVariableStatement(node)) {
    ts.forEachChild(node, (child) => visit(child, inner, report));
  }
}

const places = [];
for (const file of process.argv.slice(2)) {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  visit(source, [], (place) => places.push(place));
}
process.stdout.write(places.map((place) => `${place}\n`).join(""));
