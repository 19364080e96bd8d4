import { cp, mkdir, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { run } from "@berth/host/run"

/** The programs of a small rootfs: enough to look around in. */
const PROGRAMS = ["sh", "cat", "id", "ls", "touch", "readlink"]

/** Makes a directory with a few of the host's programs and their libraries, in `bin` and `lib` or in `usr`. */
export const makeRootfs = async (
  path: string,
  { layout, files = {} }: { layout: "split" | "merged"; files?: Readonly<Record<string, string>> },
): Promise<void> => {
  const usr = layout === "merged" ? "usr" : ""
  await mkdir(join(path, usr, "bin"), { recursive: true })
  const programs = PROGRAMS.map((name) => `/usr/bin/${name}`)
  const { stdout } = await run(["ldd", ...programs], { signal: AbortSignal.timeout(10_000) })
  const libraries = [...stdout.matchAll(/(\/lib\S*) \(/g)].map(([, library = ""]) => library)
  for (const program of programs) {
    await cp(program, join(path, usr, "bin", program.slice("/usr/bin/".length)), {
      dereference: true,
    })
  }
  for (const library of new Set(libraries)) {
    await mkdir(join(path, usr, dirname(library)), { recursive: true })
    await cp(library, join(path, usr, library), { dereference: true })
  }
  if (layout === "merged") {
    for (const name of ["bin", "lib", "lib64"]) await symlink(`usr/${name}`, join(path, name))
  }
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), content)
  }
}

/** Lists every path below a directory with its type, mode, size, time and target, so that any change shows. */
export const census = async (path: string): Promise<string> => {
  const find = ["find", path, "-printf", "%P %y %m %s %T@ %l\\n"] as const
  const { stdout } = await run(find, { signal: AbortSignal.timeout(10_000) })
  return stdout.split("\n").sort().join("\n")
}
