import { execFile } from "node:child_process"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import type { DockerEngine } from "./engine.ts"

const exec = promisify(execFile)

/** The image's name in the engine. */
export const HOST_IMAGE = "berth-test/host:latest"
/** What a container of it needs to run the host's programs. */
export const HOST_IMAGE_ARGUMENTS = ["--volume", "/usr:/usr:ro"] as const

const IMPORT_DEADLINE_MS = 60_000

/**
 * Makes an almost empty image that takes its system from the host's /usr: made in a moment, without a
 * registry, and node, git and npm all work in it.
 */
export const importHostImage = async (engine: DockerEngine): Promise<void> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-image-"))
  try {
    const root = join(directory, "root")
    // /sbin is a directory of its own: the engine mounts its init into it.
    for (const name of ["usr", "etc", "proc", "sys", "dev", "tmp", "run", "home", "sbin"]) {
      await mkdir(join(root, name), { recursive: true })
    }
    for (const name of ["bin", "lib", "lib64"]) {
      await symlink(`usr/${name}`, join(root, name))
    }
    await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
    await writeFile(join(root, "etc/group"), "root:x:0:\n")
    const tar = join(directory, "root.tar")
    await exec("tar", ["--create", "--file", tar, "--directory", root, "."])
    await exec("docker", ["--host", engine.host, "import", tar, HOST_IMAGE], {
      timeout: IMPORT_DEADLINE_MS,
    })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
