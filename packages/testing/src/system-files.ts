import { execFile } from "node:child_process"
import { lstatSync } from "node:fs"
import { promisify } from "node:util"

const exec = promisify(execFile)

/** Debian's packages, with all that they load: /bin/sh, coreutils, perl and a few small tools. */
const PACKAGES = [
  ...["dash", "bash", "coreutils", "findutils", "grep", "sed", "perl-base", "util-linux", "mount"],
  ...["libc6", "libcrypt1", "libselinux1", "libpcre2-8-0", "libacl1", "libattr1", "libgmp10"],
  ...["libtinfo6", "libblkid1", "libmount1", "libsmartcols1", "libuuid1", "libcap2"],
]
const NOT_NEEDED = /^usr\/share\/(doc|man|locale|info|lintian|bash-completion)\//

/** What a boot with a repo needs of a system beside a shell. */
export const BOOT_PACKAGES = [
  ...["git", "zlib1g", "procps", "libproc2-0", "libncursesw6", "libstdc++6", "libgcc-s1"],
] as const

/** The files of a small system, among those of the host, as paths below its root: those of more packages too. */
export const systemFiles = async (more: readonly string[] = []): Promise<string[]> => {
  const { stdout } = await exec("dpkg", ["--listfiles", ...PACKAGES, ...more])
  const listed = stdout.split("\n").map(mergedPath)
  return [...new Set([...listed, "usr/bin/sh"])].filter(
    (path) => path.startsWith("usr/") && !NOT_NEEDED.test(path) && isFile(`/${path}`),
  )
}

/** /bin, /sbin and /lib are links into /usr, but the package database may name files by them. */
const mergedPath = (path: string): string =>
  path.replace(/^\/(bin|sbin|lib|lib64)\//, "/usr/$1/").slice(1)

const isFile = (path: string): boolean => {
  const seen = lstatSync(path, { throwIfNoEntry: false })
  return seen !== undefined && !seen.isDirectory()
}
