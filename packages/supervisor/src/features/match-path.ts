/**
 * Matches a path with a pattern, and returns its named parts: `/commands/:id` with `/commands/7` gives `{ id: "7" }`.
 */
export const matchPath = (pattern: string, path: string): Record<string, string> | undefined => {
  const [wanted, given] = [pattern.split("/"), path.split("/")]
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [place, part] of wanted.entries()) {
    const value = given[place] ?? ""
    if (!part.startsWith(":")) {
      if (part !== value) return undefined
      continue
    }
    const decoded = decode(value)
    if (decoded === undefined || decoded === "") return undefined
    params[part.slice(1)] = decoded
  }
  return params
}

const decode = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
