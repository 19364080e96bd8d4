/** The cycles of a graph of imports, at least one for each knot, each as the files along the way. */
export function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const cycles: string[][] = []
  const done = new Set<string>()
  const trail: string[] = []

  const visit = (file: string) => {
    const at = trail.indexOf(file)
    if (at !== -1) cycles.push([...trail.slice(at), file])
    if (at !== -1 || done.has(file)) return
    trail.push(file)
    for (const next of graph.get(file) ?? []) visit(next)
    trail.pop()
    done.add(file)
  }

  for (const file of graph.keys()) visit(file)
  return cycles
}
