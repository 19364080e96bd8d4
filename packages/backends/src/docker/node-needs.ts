const LOADERS: Readonly<Record<string, string>> = {
  x64: "/lib64/ld-linux-x86-64.so.2",
  arm64: "/lib/ld-linux-aarch64.so.1",
}
const MULTIARCH: Readonly<Record<string, string>> = {
  x64: "x86_64-linux-gnu",
  arm64: "aarch64-linux-gnu",
}
const CPP_LIBRARY = "libstdc++.so.6"

/**
 * The first part that an image lacks for the toolbox's node, and so for all that Berth runs inside; undefined if none.
 */
export const whatNodeLacks = async (
  has: (path: string) => Promise<boolean>,
): Promise<string | undefined> => {
  const { arch } = process
  const loader = LOADERS[arch]
  if (loader !== undefined && !(await has(loader))) return `glibc (${loader})`
  const places = [
    `/usr/lib/${MULTIARCH[arch]}`,
    "/usr/lib64",
    "/usr/lib",
    `/lib/${MULTIARCH[arch]}`,
  ]
  const found = await Promise.all(places.map((place) => has(`${place}/${CPP_LIBRARY}`)))
  return found.includes(true) ? undefined : CPP_LIBRARY
}
