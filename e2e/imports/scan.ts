import { type CallExpression, type Expression, parseSync, Visitor } from "oxc-parser"

export interface Import {
  /** The text between the quotes, or null where the name is computed. */
  readonly specifier: string | null
  /** `type` leaves nothing behind at run time; `onDemand` is `import()`; `static` is everything else. */
  readonly kind: "static" | "type" | "onDemand"
  readonly line: number
}

/** Finds every import in a source file, in order, whatever its form. Throws where the file does not parse. */
export function scanImports(file: string, source: string): Import[] {
  const { program, errors } = parseSync(file, source)
  const error = errors.find(({ severity }) => severity === "Error")
  if (error !== undefined) throw new SyntaxError(`${file} does not parse: ${error.message}`)

  const found: (Omit<Import, "line"> & { offset: number })[] = []
  const add = (kind: Import["kind"], specifier: string | null, { start }: { start: number }) => {
    found.push({ kind, specifier, offset: start })
  }
  const requires = requireNames(program)

  new Visitor({
    ImportDeclaration: (node) => add(typeOr("static", node.importKind), node.source.value, node),
    ExportAllDeclaration: (node) => add(typeOr("static", node.exportKind), node.source.value, node),
    ExportNamedDeclaration: (node) => {
      if (node.source) add(typeOr("static", node.exportKind), node.source.value, node)
    },
    TSImportType: (node) => add("type", node.source.value, node),
    TSExternalModuleReference: (node) => add("static", node.expression.value, node),
    ImportExpression: (node) => add("onDemand", literal(node.source), node),
    CallExpression: (node) => {
      if (loadsModule(node, requires)) add("static", literal(node.arguments[0]), node)
    },
  }).visit(program)

  return found
    .sort((a, b) => a.offset - b.offset)
    .map(({ offset, ...rest }) => ({ ...rest, line: source.slice(0, offset).split("\n").length }))
}

const typeOr = (kind: Import["kind"], declared: string | null | undefined) =>
  declared === "type" ? "type" : kind

/** `require` and every name that `createRequire` gives it. */
function requireNames(program: ReturnType<typeof parseSync>["program"]): Set<string> {
  const names = new Set(["require"])
  new Visitor({
    VariableDeclarator: ({ id, init }) => {
      if (id.type === "Identifier" && init && isCreateRequire(init)) names.add(id.name)
    },
  }).visit(program)
  return names
}

/** `require(x)`, `require.resolve(x)`, `createRequire(…)(x)` and `import.meta.resolve(x)`. */
function loadsModule({ callee }: CallExpression, requires: ReadonlySet<string>): boolean {
  const isRequire = (node: Expression) =>
    (node.type === "Identifier" && requires.has(node.name)) || isCreateRequire(node)
  if (isRequire(callee)) return true
  return (
    callee.type === "MemberExpression" &&
    callee.property.type === "Identifier" &&
    callee.property.name === "resolve" &&
    (callee.object.type === "MetaProperty" || isRequire(callee.object))
  )
}

const isCreateRequire = (node: Expression) =>
  node.type === "CallExpression" &&
  node.callee.type === "Identifier" &&
  node.callee.name === "createRequire"

function literal(node: CallExpression["arguments"][number] | undefined): string | null {
  if (node?.type === "Literal" && typeof node.value === "string") return node.value
  if (node?.type === "TemplateLiteral" && node.expressions.length === 0)
    return node.quasis[0]?.value.cooked ?? null
  return null
}
