//! A Redis whose certificate has run out, and one whose name nobody knows.

use std::{fs, path::Path};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

use super::{
    Scene,
    elsewhere::{FEW, results, says, told},
    redis::ask,
};
use crate::process::free_port;

pub(super) async fn name(scene: &Scene) -> anyhow::Result<()> {
    let url = vec![("PACELINE__CAMERAS__URL", "redis://redis.invalid:6379".into())];
    told(scene, url, async || says(scene, "failed to lookup address").await).await?;
    results(scene, FEW, "once it is told the right name").await
}

pub(super) async fn certificate(scene: &Scene) -> anyhow::Result<()> {
    let folder = scene.server.file("certificates");
    fs::create_dir_all(&folder)?;
    sign(&folder)?;
    let path = |name: &str| folder.join(name).to_str().map(str::to_owned).context("no text");
    let port = free_port()?.port().to_string();
    let (authority, old, new) = (path("authority.pem")?, path("old")?, path("new")?);
    serve(scene, &authority, &old, &port).await?;
    let variables = vec![
        ("PACELINE__CAMERAS__URL", format!("rediss://localhost:{port}").into()),
        ("PACELINE__CAMERAS__CA_FILE", (&authority).into()),
    ];
    let done = told(scene, variables, async || {
        says(scene, "expired").await?;
        serve(scene, &authority, &new, &port).await?;
        results(scene, FEW, "under the new certificate").await
    })
    .await;
    ask::<()>(scene, &["CONFIG", "SET", "tls-port", "0"]).await?;
    done
}

/// From now on Redis shows this certificate on that port.
async fn serve(scene: &Scene, authority: &str, name: &str, port: &str) -> anyhow::Result<()> {
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    let settings = [
        ("tls-ca-cert-file", authority),
        ("tls-cert-file", &certificate),
        ("tls-key-file", &key),
        ("tls-auth-clients", "no"),
        ("tls-port", port),
    ];
    let settings = settings.into_iter().flat_map(|(name, value)| [name, value]);
    ask(scene, &["CONFIG", "SET"].into_iter().chain(settings).collect::<Vec<_>>()).await
}

/// An authority, a certificate of its own that has run out, and one that has not.
fn sign(folder: &Path) -> anyhow::Result<()> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    fs::write(folder.join("authority.pem"), issuer.pem())?;
    for (name, year) in [("old", 2020), ("new", 4096)] {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.not_after = date_time_ymd(year, 1, 1);
        // One that is called as its authority would pass for its own.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &issuer)?.pem();
        fs::write(folder.join(format!("{name}.pem")), certificate)?;
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    }
    Ok(())
}
