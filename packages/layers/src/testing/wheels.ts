import { execFileSync } from "node:child_process"
import { rmSync } from "node:fs"
import { join } from "node:path"
import { writeFiles } from "./files.ts"
import { makeRoot } from "./store.ts"

/**
 * Makes a directory with wheels of p and q, which p needs, in two versions. The second removes and adds directories,
 * and has a directory where the first has a file.
 */
export const makeWheels = (): string => {
  const root = makeRoot()
  for (const version of ["1", "2"]) {
    for (const name of ["p", "q"]) {
      const files = {
        [`${name}/__init__.py`]: `version = ${version}\n`,
        [`${name}/only${version}/x.py`]: "",
        [`${name}/${version === "1" ? "turns" : "turns/in.py"}`]: "",
        ...about(name, version),
      }
      const source = join(root, "source")
      const record = join(`${name}-${version}.dist-info`, "RECORD")
      const listed = [...Object.keys(files), record].map((path) => `${path},,\n`).join("")
      writeFiles(source, { ...files, [record]: listed })
      const wheel = join(root, `${name}-${version}-py3-none-any.whl`)
      execFileSync(
        "python3",
        ["-m", "zipfile", "-c", wheel, name, `${name}-${version}.dist-info`],
        { cwd: source },
      )
      rmSync(source, { recursive: true })
    }
  }
  return root
}

const about = (name: string, version: string): Record<string, string> => ({
  [`${name}-${version}.dist-info/METADATA`]: [
    ...["Metadata-Version: 2.1", `Name: ${name}`, `Version: ${version}`],
    ...(name === "p" ? [`Requires-Dist: q==${version}`] : []),
    "",
  ].join("\n"),
  [`${name}-${version}.dist-info/WHEEL`]:
    "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
})
