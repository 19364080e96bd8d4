import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { CERTIFICATE_FILES, SYSTEM_BUNDLES } from "@berth/protocol/certificates"

/** Writes the host's certificate authorities, alone and together with this system's, readable for all users. */
export const writeCertificates = async (
  added: readonly string[],
  directory: string,
): Promise<void> => {
  if (added.length === 0) return
  const files = {
    [CERTIFICATE_FILES.added]: added.join(""),
    [CERTIFICATE_FILES.all]: `${await systemCertificates()}\n${added.join("")}`,
  }
  await mkdir(directory, { recursive: true })
  await chmod(directory, 0o755)
  for (const [name, text] of Object.entries(files)) {
    const path = join(directory, name)
    await rm(path, { force: true })
    await writeFile(path, text)
    await chmod(path, 0o644)
  }
}

/** The certificate list of this sandbox's system, or node's own if the system has none. */
const systemCertificates = async (): Promise<string> => {
  for (const path of Object.values(SYSTEM_BUNDLES)) {
    const text = await readFile(path, "utf8").catch(() => undefined)
    if (text !== undefined) return text
  }
  const { rootCertificates } = await import("node:tls")
  return rootCertificates.join("\n")
}
