import { constants } from "node:fs"
import { access, stat } from "node:fs/promises"
import { delimiter, isAbsolute, join } from "node:path"

/** The absolute path of an executable, or undefined where `path` has none. Relative entries do not count. */
export const findTool = async (tool: string, path: string): Promise<string | undefined> => {
  for (const directory of path.split(delimiter).filter(isAbsolute)) {
    const candidate = join(directory, tool)
    if (await isExecutable(candidate)) return candidate
  }
  return undefined
}

const isExecutable = async (file: string): Promise<boolean> => {
  try {
    await access(file, constants.X_OK)
    return (await stat(file)).isFile()
  } catch {
    return false
  }
}
