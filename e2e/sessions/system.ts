import { execFile } from "node:child_process"
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { BOOT_PACKAGES, systemFiles } from "@berth/testing/system-files"

const exec = promisify(execFile)

/** Makes a system without any agent: Berth brings them. Its files are those of the host, under another name. */
export const makeSystem = async (root: string): Promise<void> => {
  for (const each of ["usr/local/bin", "etc", "proc", "sys", "dev", "tmp", "run", "home", "sbin"])
    await mkdir(join(root, each), { recursive: true })
  await chmod(join(root, "tmp"), 0o1777)
  for (const each of ["bin", "lib", "lib64"]) await symlink(`usr/${each}`, join(root, each))
  await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
  await writeFile(join(root, "etc/group"), "root:x:0:\n")
  await copy(["--parents", ...(await systemFiles(BOOT_PACKAGES)), root], "/")
}

/** Copies files as hard links, or as copies where the files lie on another disk. */
const copy = async (args: readonly string[], cwd: string): Promise<void> => {
  const cp = (how: string) =>
    exec("cp", [how, "--no-dereference", "--preserve=mode", ...args], { cwd })
  await cp("--link").catch(() => cp("--remove-destination"))
}
