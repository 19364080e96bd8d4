/** `374 MB in 3,676 files` */
export const saySize = ({ bytes, files }: { bytes: number; files: number }): string =>
  `${sayBytes(bytes)} in ${files.toLocaleString("en")} files`

export const sayBytes = (bytes: number): string =>
  bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${Math.round(bytes / 1e6)} MB`
