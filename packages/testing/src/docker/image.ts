import { execFile } from "node:child_process"
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { systemFiles } from "../system-files.ts"
import type { DockerEngine } from "./engine.ts"

const exec = promisify(execFile)

/** The image's name in the engine. */
export const HOST_IMAGE = "berth-test/host:latest"
/** The arguments with which a container of the image runs the host's programs. */
export const HOST_IMAGE_ARGUMENTS = ["--volume", "/usr:/usr:ro"] as const

const IMPORT_DEADLINE_MS = 60_000

/**
 * Makes an almost empty image that takes its system from the host's /usr: made in a moment, without a
 * registry, and node, git and npm all work in it.
 */
export const importHostImage = async (engine: DockerEngine): Promise<void> => {
  await importImage(engine, HOST_IMAGE, [])
}

const SYSTEM_IMAGE = "berth-test/system:latest"

export interface SystemImage {
  /** Packages of the host whose files the image has beside those of every system. */
  readonly packages?: readonly string[]
  /** Further files of the host. */
  readonly files?: readonly string[]
  /** The image's name in the engine. */
  readonly name?: string
}

/** Makes an image with a small system from the host's files; returns its digest. */
export const importSystemImage = async (
  engine: DockerEngine,
  { packages = [], files = [], name = SYSTEM_IMAGE }: SystemImage = {},
): Promise<string> => {
  const added = files.map((file) => file.replace(/^\//, ""))
  const all = new Set([...(await systemFiles(packages)), ...added])
  return importImage(engine, name, [...all])
}

/** Makes an image from a directory that holds a whole system. */
export const importTree = async (
  engine: DockerEngine,
  name: string,
  directory: string,
): Promise<string> => {
  const { stdout } = await exec(
    ...(["sh", ["-c", IMPORT_TREE, "sh", directory, engine.host, name]] as const),
    { timeout: IMPORT_DEADLINE_MS },
  )
  return stdout.trim()
}

const IMPORT_TREE = 'tar --create --directory "$1" . | docker --host "$2" import - "$3"'

const importImage = async (
  engine: DockerEngine,
  name: string,
  files: readonly string[],
): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-image-"))
  try {
    const root = join(directory, "root")
    // /sbin is a directory and no link: the engine mounts its init into it.
    for (const each of ["usr", "etc", "proc", "sys", "dev", "tmp", "run", "home", "sbin"]) {
      await mkdir(join(root, each), { recursive: true })
    }
    // Runtimes give a file system in memory the mode of the directory that it hides.
    await chmod(join(root, "tmp"), 0o1777)
    for (const each of ["bin", "lib", "lib64"]) {
      await symlink(`usr/${each}`, join(root, each))
    }
    await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
    await writeFile(join(root, "etc/group"), "root:x:0:\n")
    const tar = join(directory, "root.tar")
    const list = join(directory, "files")
    await writeFile(list, files.map((file) => `${file}\n`).join(""))
    await exec("tar", [
      ...["--create", "--file", tar, "--directory", root, "."],
      ...["--directory", "/", "--no-recursion", "--files-from", list],
    ])
    const { stdout } = await exec("docker", ["--host", engine.host, "import", tar, name], {
      timeout: IMPORT_DEADLINE_MS,
    })
    return stdout.trim()
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
