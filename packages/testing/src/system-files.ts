import { execFile } from "node:child_process"
import { lstatSync } from "node:fs"
import { promisify } from "node:util"

const exec = promisify(execFile)

/** Debian's packages of a small system, with all their libraries: /bin/sh, coreutils, perl and a few small tools. */
const PACKAGES = [
  ...["dash", "bash", "coreutils", "findutils", "grep", "sed", "perl-base", "util-linux", "mount"],
  ...["libc6", "libcrypt1", "libselinux1", "libpcre2-8-0", "libacl1", "libattr1", "libgmp10"],
  ...["libtinfo6", "libblkid1", "libmount1", "libsmartcols1", "libuuid1", "libcap2"],
]
const NOT_NEEDED = /^usr\/share\/(doc|man|locale|info|lintian|bash-completion)\//

/** The packages that a boot with a repo needs beside a shell. */
export const BOOT_PACKAGES = [
  ...["git", "zlib1g", "procps", "libproc2-0", "libncursesw6", "libstdc++6", "libgcc-s1"],
] as const

/** The host's files that make a small system, as paths below its root, including those of `more` packages. */
export const systemFiles = async (more: readonly string[] = []): Promise<string[]> => {
  const { stdout } = await exec("dpkg", ["--listfiles", ...PACKAGES, ...more])
  const listed = stdout.split("\n").map(mergedPath)
  return [...new Set([...listed, "usr/bin/sh"])].filter(
    (path) => path.startsWith("usr/") && !NOT_NEEDED.test(path) && isFile(`/${path}`),
  )
}

/** The path below /usr: /bin, /sbin and /lib are links into it, but the package database may name files by them. */
const mergedPath = (path: string): string =>
  path.replace(/^\/(bin|sbin|lib|lib64)\//, "/usr/$1/").slice(1)

const isFile = (path: string): boolean => {
  const seen = lstatSync(path, { throwIfNoEntry: false })
  return seen !== undefined && !seen.isDirectory()
}
